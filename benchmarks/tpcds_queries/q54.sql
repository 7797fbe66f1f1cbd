-- How much do buyers of women's goods on the web or by mail spend later in stores of their state?
WITH remote AS (
  SELECT
    cs_bill_customer_sk AS customer_sk, cs_item_sk AS item_sk, cs_sold_date_sk AS date_sk
  FROM catalog_sales
  UNION ALL
  SELECT ws_bill_customer_sk, ws_item_sk, ws_sold_date_sk
  FROM web_sales
),
buyer AS (
  SELECT DISTINCT c_customer_sk, c_current_addr_sk
  FROM remote
  JOIN item ON i_item_sk = item_sk
  JOIN date_dim ON d_date_sk = date_sk
  JOIN customer ON c_customer_sk = customer_sk
  WHERE i_category = 'Women' AND d_year = 1999 AND d_moy BETWEEN 4 AND 6
),
spent AS (
  SELECT c_customer_sk, sum(ss_ext_sales_price) AS revenue
  FROM buyer
  JOIN customer_address ON ca_address_sk = c_current_addr_sk
  JOIN store ON s_state = ca_state
  JOIN store_sales ON ss_customer_sk = c_customer_sk
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  WHERE d_month_seq BETWEEN
    (SELECT max(d_month_seq) + 1 FROM date_dim WHERE d_year = 1999 AND d_moy = 6)
    AND (SELECT max(d_month_seq) + 12 FROM date_dim WHERE d_year = 1999 AND d_moy = 6)
  GROUP BY c_customer_sk
)
SELECT
  cast(floor(revenue / 500) AS int) AS segment,
  count(*) AS customers,
  500 * cast(floor(revenue / 500) AS int) AS lower_bound
FROM spent
GROUP BY cast(floor(revenue / 500) AS int)
ORDER BY segment
LIMIT 100
