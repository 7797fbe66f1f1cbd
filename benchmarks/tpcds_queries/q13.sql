-- How much do some kinds of households buy in stores, for ranges of price and profit?
SELECT
  round(avg(ss_quantity), 2) AS quantity,
  avg(ss_ext_sales_price) AS price,
  avg(ss_ext_wholesale_cost) AS cost,
  sum(ss_ext_wholesale_cost) AS total_cost
FROM store_sales
JOIN store ON s_store_sk = ss_store_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_year = 2001
JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
JOIN customer_demographics ON cd_demo_sk = ss_cdemo_sk
JOIN customer_address ON ca_address_sk = ss_addr_sk AND ca_country = 'United States'
WHERE (
    (cd_marital_status = 'M' AND hd_dep_count >= 3 AND ss_sales_price BETWEEN 50 AND 150)
    OR (cd_marital_status = 'S' AND hd_dep_count <= 1 AND ss_sales_price BETWEEN 10 AND 100)
    OR (cd_marital_status = 'W' AND hd_dep_count <= 5 AND ss_sales_price >= 20)
  )
  AND (
    (ca_state IN ('TX', 'OH', 'KY', 'IN') AND ss_net_profit > -500)
    OR (ca_state IN ('VA', 'MS', 'GA', 'NC') AND ss_net_profit > -5000)
    OR (ca_state IN ('MO', 'MN', 'IA', 'KS') AND ss_net_profit < 2000)
  )
