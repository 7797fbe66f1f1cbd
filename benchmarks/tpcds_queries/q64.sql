-- Which returned items does a store sell less often than a year before, by customer address?
WITH profitable AS (
  SELECT cs_item_sk AS item_sk
  FROM catalog_sales
  JOIN catalog_returns ON cr_item_sk = cs_item_sk AND cr_order_number = cs_order_number
  GROUP BY cs_item_sk
  HAVING sum(cs_ext_list_price) > 2 * sum(cr_refunded_cash + cr_reversed_charge + cr_store_credit)
),
sold AS (
  SELECT
    i_item_sk,
    i_product_name,
    s_store_name,
    s_zip,
    past.ca_street_number AS old_number,
    past.ca_street_name AS old_street,
    past.ca_city AS old_city,
    past.ca_zip AS old_zip,
    home.ca_street_number AS street_number,
    home.ca_street_name AS street,
    home.ca_city AS city,
    home.ca_zip AS zip,
    sale_day.d_year AS sold_in,
    first_sale.d_year AS customer_since,
    first_shipping.d_year AS shipped_since,
    count(*) AS sales,
    sum(ss_wholesale_cost) AS cost,
    sum(ss_list_price) AS list_price,
    sum(ss_coupon_amt) AS coupons
  FROM store_sales
  JOIN store_returns ON sr_item_sk = ss_item_sk AND sr_ticket_number = ss_ticket_number
  LEFT SEMI JOIN profitable ON item_sk = ss_item_sk
  JOIN item ON i_item_sk = ss_item_sk
  JOIN store ON s_store_sk = ss_store_sk
  JOIN promotion ON p_promo_sk = ss_promo_sk
  JOIN customer ON c_customer_sk = ss_customer_sk
  JOIN date_dim AS sale_day ON sale_day.d_date_sk = ss_sold_date_sk
  JOIN date_dim AS first_sale ON first_sale.d_date_sk = c_first_sales_date_sk
  JOIN date_dim AS first_shipping ON first_shipping.d_date_sk = c_first_shipto_date_sk
  JOIN customer_demographics AS person_then ON person_then.cd_demo_sk = ss_cdemo_sk
  JOIN customer_demographics AS person ON person.cd_demo_sk = c_current_cdemo_sk
  JOIN household_demographics AS household_then ON household_then.hd_demo_sk = ss_hdemo_sk
  JOIN household_demographics AS household ON household.hd_demo_sk = c_current_hdemo_sk
  JOIN income_band AS income_then
    ON income_then.ib_income_band_sk = household_then.hd_income_band_sk
  JOIN income_band AS income ON income.ib_income_band_sk = household.hd_income_band_sk
  JOIN customer_address AS past ON past.ca_address_sk = ss_addr_sk
  JOIN customer_address AS home ON home.ca_address_sk = c_current_addr_sk
  WHERE person.cd_marital_status <> person_then.cd_marital_status AND i_current_price < 50
  GROUP BY ALL
)
SELECT
  later.i_product_name,
  later.s_store_name,
  later.s_zip,
  earlier.old_number,
  earlier.old_street,
  earlier.old_city,
  earlier.old_zip,
  later.street_number,
  later.street,
  later.city,
  later.zip,
  earlier.sold_in AS earlier_year,
  earlier.sales AS earlier_sales,
  earlier.cost AS earlier_cost,
  earlier.list_price AS earlier_list_price,
  earlier.coupons AS earlier_coupons,
  later.sold_in AS later_year,
  later.sales AS later_sales,
  later.cost AS later_cost,
  later.list_price AS later_list_price,
  later.coupons AS later_coupons
FROM sold AS earlier
JOIN sold AS later
  ON later.i_item_sk = earlier.i_item_sk
  AND later.s_store_name = earlier.s_store_name
  AND later.s_zip = earlier.s_zip
  AND later.sold_in = earlier.sold_in + 1
  AND later.sales <= earlier.sales
WHERE earlier.sold_in = 2000
ORDER BY ALL
LIMIT 100
