-- In which months do a brand's store sales deviate from the yearly mean, with neighboring months?
WITH monthly AS (
  SELECT
    i_category, i_brand, s_store_name, s_company_name, d_year, d_moy,
    sum(ss_sales_price) AS sales
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN item ON i_item_sk = ss_item_sk
  JOIN store ON s_store_sk = ss_store_sk
  WHERE d_month_seq BETWEEN 1187 AND 1200
  GROUP BY i_category, i_brand, s_store_name, s_company_name, d_year, d_moy
),
compared AS (
  SELECT
    *,
    avg(sales) OVER (PARTITION BY i_category, i_brand, s_store_name, s_company_name, d_year)
      AS mean,
    lag(sales) OVER months AS previous,
    lead(sales) OVER months AS following
  FROM monthly
  WINDOW months AS (
    PARTITION BY i_category, i_brand, s_store_name, s_company_name ORDER BY d_year, d_moy
  )
)
SELECT *
FROM compared
WHERE d_year = 1999 AND mean > 0 AND abs(sales - mean) > 0.1 * mean
ORDER BY sales - mean, i_category, i_brand, s_store_name, s_company_name, d_moy
LIMIT 100
